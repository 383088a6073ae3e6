"""What can be told of a plane from its logs alone: plain folds over facts, of a simulated plane or of a real one."""
