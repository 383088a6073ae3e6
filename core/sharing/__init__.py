"""How a fleet of mixed GPU types is shared among jobs by a policy, and how rounds deliver the shares.

problem      what is solved: classes of like jobs, columns of hardware, speeds; merged pools
programmes   what a policy asks a solver: linear and conic programmes as sparse arrays
times        the variables that all policies share, with the rows of time and capacity
cones        the rows of a conic programme
bounds       whether shares keep to the time of jobs and the GPUs of pools, to the last millionth
pairs        which classes are worth a place on the same GPUs
faces        which of the equally good answers is taken
greedy       whole shares, one job after the other
policies     the policies, one file each: pure generators of programmes
building     the problem of the jobs that are there now
accounts     lags: the rounds that each job is owed, less those it received
rounds       which job runs where in the next round
replay       jobs played over a fleet in rounds; outcomes has the figures of one
published    the published mechanism, and published_replay jobs played by it
"""
