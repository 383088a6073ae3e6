"""An agent's answers to a request for bids: the score of a bid, or the reason of a refusal and the missing capacity.

shortages   capacity for the first job that does not fit, and the least capacity that must be freed
bids        the score of a bid; the missing capacity beyond all possible victims; capacity that is kept free
refusals    the answer without a bid: reason, missing capacity, shortage
"""
