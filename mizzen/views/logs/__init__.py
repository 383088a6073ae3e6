"""Views of logs: facts, and the images folded from them, of a running plane or from a file.

log_source    the source of a log: the reader beside its keeper, or the log's file
fact_lines    a fact as a line of text, and as JSON
sentences     facts about tasks and nodes as sentences
fact_stream   `mizzen log`: selected facts, then new ones as they come
replay        `mizzen replay`: folds a log's file from its first fact and checks every invariant
image_view    `mizzen state`: an image at a sequence, one of its sections, or one entry
"""
