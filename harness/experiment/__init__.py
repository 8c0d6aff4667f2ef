# SPDX-License-Identifier: MIT
"""What a paper's folder declares in experiment.yaml: arms, workloads, matrices, claims."""
