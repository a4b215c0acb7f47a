"""pycoll bench: collectives measured beside those of other libraries, in the same run.

- settings: what is to be measured; libraries: how the ranks of each are started; job: ranks that wait for tasks
- measure: every library in turn; workers: the programs that measure, one for each face of a library
- bare: flags and copies, the least that anything can take; breakdown: where a small call's time goes in Python
- figures: statistics and ratios; report: files and tables; plot, page: the drawing, and the page of the documentation
"""
