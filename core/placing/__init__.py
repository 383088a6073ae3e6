"""How an allocation agent searches its region: arrays, classes of requests, picks."""
