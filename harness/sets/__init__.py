# SPDX-License-Identifier: MIT
"""Result sets: written once, whole, and never changed; their manifest, seal, digest, references, exports."""
