"""Pipelines for people: lists, one pipeline with its stages and changes, and the outcome of a test."""
