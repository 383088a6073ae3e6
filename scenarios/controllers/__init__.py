"""Applications' controllers, one sort a file: how somebody could answer who is asked whether tasks may be touched."""
