"""The programs that measure: one process a rank, in the environment of one library, started and told by the driver.

They are run as scripts and import each other as such, because pycoll is not there in the environments of the peers.
"""
