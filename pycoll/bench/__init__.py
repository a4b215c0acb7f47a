"""pycoll bench: collectives measured beside those of other libraries, in the same run.

settings    what is to be measured           bare      flags and copies, the least that anything can take
libraries   how each library is started      figures   statistics and ratios
job         ranks that wait for tasks        report    files and tables; plot, page: drawing and docs
measure     every library in turn            workers/  the programs that measure, one for each face of a library
"""
