"""Parts of the benchmark `boot`.

region   the log of a large region with 1.3 attempts a node, and how it goes on
parts    what runs as processes of their own: the log's keeper, its reader, and followers
"""
