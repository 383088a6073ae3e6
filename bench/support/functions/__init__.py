"""Calls of functions in virtual time: the shipped router and servers, and calls drawn from a seed.

load     functions with Zipf rates, and the calls of a rate
region   one router and ten servers with emulated executors, and one caller
"""
