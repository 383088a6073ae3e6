"""Parts of the benchmark `estimate`.

load   jobs of a public trace as they came, or jobs drawn to be like them
cost   processor time of estimates while very many workloads wait
"""
