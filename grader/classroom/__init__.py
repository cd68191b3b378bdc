"""Grade a class: hand-ins in, one result for each student and exercise out, whatever happens on the way.

policy          how results become points: one small file
verdict         grade the bytes of one hand-in; the result as JSON
archives        read a zip or tar archive that a student made, without unpacking it
commits         which commit was handed in and when, without believing the student's git configuration
handed_in       find the students of a folder and what each handed in
store           what was graded, kept through any interruption
hand            the process that grades one work after another
hands           several of them, replaced when they die
cluster         the same on a Dask cluster
misconceptions  recognise known wrong repairs
gradebook       results and policy make marks
tables          marks as CSV and JSON
feedback        what a student reads
class_report    what the instructor reads, with its templates beside it
"""
