"""What a claim must keep to: the checks that agents search under and the store repeats at the moment of the grant."""
