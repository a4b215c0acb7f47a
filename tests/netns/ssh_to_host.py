"""Stands for ssh between the hosts of hosts.py: `ssh_to_host.py NAME ADDRESS COMMAND` runs the command line in a shell
on that host, in the environment that a login gives: not this one."""

import os
import sys

name, address, command = sys.argv[1:]
number = int(address.rpartition(".")[2]) - 1
kept = {variable: os.environ[variable] for variable in ("PATH", "HOME", "LANG") if variable in os.environ}
os.chdir("/")
os.execvpe("ip", ["ip", "netns", "exec", f"{name}-h{number}", "sh", "-c", command], kept)
