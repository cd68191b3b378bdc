"""Write the students' copy of the course, bring a student's repository up to date, pack the copy for other services."""
