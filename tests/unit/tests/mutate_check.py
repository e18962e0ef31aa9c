"""Runs mutate.py's experiment on executables that only print the test that they run, and prints these lines. Usage:
mutate_check.py FAILING NUMBER...: FAILING is the executable that fails its test b, "1" or "none"."""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../mutations"))
import mutate

failing, numbers = sys.argv[1], [int(number) for number in sys.argv[2:]]


class Scratch:
    def __init__(self, directory):
        self.directory = directory

    def executable(self, name, file=None, text=None):
        path = os.path.join(self.directory, str(name))
        with open(path, "w") as out:
            out.write(f"""#!/bin/sh
case "$*" in *-ltc*) printf "[doctest] listing\\na\\nb\\nc\\n"; exit ;; esac
echo "{name} $FA2_INTERPRETER ${{4#-tc=}}" >>{self.directory}/log
case "$4" in -tc=b) [ {name} != "{failing}" ] && [ {failing} != any ] ;; esac
""")
        os.chmod(path, 0o700)
        return path


mutate.Scratch = Scratch
with tempfile.TemporaryDirectory() as directory:
    a = argparse.Namespace(numbers=numbers, seed=7, jobs=1, checks_off=False)
    try:
        for result in mutate.experiment(a, mutate.wanted(numbers or [1]), directory):
            print(result.number, result.when, result.test)
    except SystemExit as error:
        print(error)
    with open(os.path.join(directory, "log")) as log:
        print(log.read(), end="")
