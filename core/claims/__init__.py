"""Judgement of claims: whether a placement store may grant a claim now, in whole or in part, and whether a start can be reserved.

checks         whether a claim is well formed, allowed on its nodes, and fits; and the victims that the claim needs
partial        the part of a claim that fits now, for a service placed in parts
spreading      claims on few racks, pods or zones although the agent could see capacity in others
reservations   the nodes from which reservations bar a claim, and whether a start can be reserved
"""
