"""The public face of Mizzen: what people type and see. The command line is here; whatever it runs lies below."""
