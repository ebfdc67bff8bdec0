# SPDX-License-Identifier: Apache-2.0
"""What trials run on. An executor has `places`, and submit(), gone(), adopt(), wait() and close(); whether a trial has ended
is said by its folder alone."""
