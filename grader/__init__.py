"""Grade exercises on distributed training without ever running a submission in this process.

The modules, in the one order in which they may import each other (each only from those above it;
``tests/test_architecture.py`` holds them to it):

    records       what flows through the program: frozen data, no input or output
    errors        what may go wrong, each with its exit code
    safe_text     make text that a submission wrote harmless
    wire          values as data between processes: an allow-list, never pickles
    files_in      take named regular files out of an untrusted folder
    tables        read our own TOML and Python files; a broken one is `path:line: fact`
    sealed        the instructor's half in one obscured file, and opened as a folder
    catalog       read the exercises from their folders
    hand_in       find a student's files in a folder that somebody else laid out
    quiz          read a chapter's knowledge check, draw it anew, judge an answer
    quantities    read numbers, ranges and units as people write them
    predictions   understand a prediction and compare it with what came out
    changes       count the lines that a repair changed
    notes         what a student did, one JSON event a line
    saves         notice which exercises' files were saved
    sandbox       what a rank may not do: limits, Landlock, seccomp, namespaces
    ranks         everything that runs outside the trusted process, beside a submission
    launch        start ranks and end them, whatever they do
    posts         what a rank says when it begins an operation: read, described, compared
    collectives   pair what the ranks post
    network       the simulated network: every message, byte and second of it
    hangs         say in words where each rank stands
    printed       keep what a rank prints, bounded
    failures      say in words how a rank failed
    channels      speak with the ranks of one run over their sockets
    exchange      drive the ranks of one run until each has answered or the run is decided
    student       the fixture `student`: call, simulated, ranks
    schedules     read, run and draw pipeline schedules: pure functions over lists of strings
    judging       what a check is made of: promise, hints, comparisons
    experiments   run an exercise's experiment with a student's own code
    session       one pytest session over one file of checks
    runner        an exercise and a submission in, results out
    patience      what ran out of time on a busy machine gets a second look
    report        results as text, JSON, JUnit and workflow commands
    playground    the interactive pages: guess, then see truth and own curve
    audit         prove an exercise
    release       the students' copy: written, brought up to date, packed for other services
    classroom     grade a class: hand-ins in, one result for each student and exercise out, whatever happens
    verbs         one module a verb of the command line
    cli           read the command line, run one verb
    __main__      python -m grader
"""
