"""Parts of the way in which a follower catches up with its log.

encoded_images   an image as the reader serves it: encoded once for all that ask together, in pages
ahead            announcements that a follower keeps until the facts before them are there
"""
