"""Regions with needs of pools: drawn ones of any size, and small ones that lose power domains."""
