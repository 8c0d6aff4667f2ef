# SPDX-License-Identifier: MIT
"""A KVM host in a box: test gear, for guests under KVM where this host has none; docs/kvm-host.md."""
