"""The queue's memory beside its image: indexes, which equal a computation from the images, and notes, which a restart forgets.

queue_state              everything together, and the notes that change it
auctions                 the open cycle, contended shapes, slow regions, and refusals
asked_shape              the key of a refusal
refusal_dominance        refusals that hold for larger requests too
refusal_expiry           capacity that regions' logs show freed, and the refusals that wait for it
refusal_walk             the walk over waiting shapes that finds lasting refusals
quota_ledger             GPUs that each tenant holds by active awards, by level
quota_order              a tenant's awards in the order in which they take its quota
wait_index               GPUs that are waited for, by types, level and width
reservation_candidates   workloads that may get a reservation
"""
