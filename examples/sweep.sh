#!/bin/bash
# Four learning rates at once: as many tasks, each of which takes the rate that its rank names.
#
#     mizzen submit examples/sweep.sh
#
#SBATCH --job-name=sweep --ntasks=4 --time=0:10:00
#MIZZEN --gpus cpu:1 --retry.task_failed 1
rates=(0.4 0.1 0.03 0.01)
rate=${rates[$SLURM_PROCID]}

# Gradient descent on x squared, from 4.
awk -v rate="$rate" 'BEGIN {
    for (x = 4; step < 50; step++) x -= rate * 2 * x
    printf "rate %s: after %d steps x is %.6f\n", rate, step, x
}'
