"""Prove an exercise: files keep the rules, the starter fails where it should, right repairs pass, wrong ones do not.

A rule is a function that yields problems; its docstring says what holds when it yields none.
"""
