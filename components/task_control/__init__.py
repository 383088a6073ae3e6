"""Role of task control: which operations a region's tasks call for, which controllers are asked, and which operations may begin.

component    the component itself: requests to controllers, their answers, and the next step of every operation
operations   the operations that an attempt calls for, found in the region's image
requests     the request to a controller: the whole state of one attempt
state        the memory: image, awards, and the newest request about each attempt
"""
