"""What a rank may not do: limits, Landlock, seccomp, namespaces; Linux only, without privilege or dependency.

kernel        the system calls that Python lacks
paths         which files a confined rank may read
limits        memory, processor time, open files, processes
landlock      an allow-list of files; no TCP, no signals to the outside
seccomp       a deny-list of system calls; sockets by family
namespaces    processes, network, mounts and shared memory of a run's own
confinement   the steps in order
scratch       the folder of a run
probing       what this machine offers
"""
