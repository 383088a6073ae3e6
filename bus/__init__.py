"""Carries messages and promises how: the port, the catalogue of subjects, NATS, and a simulated bus held to the same suite."""
