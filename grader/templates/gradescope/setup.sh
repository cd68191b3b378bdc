#!/usr/bin/env bash
# Run once by Gradescope, when the autograder is built: a Python that PyTorch has builds for, and the environment.
set -euo pipefail

python=""
for candidate in python3.13 python3.12 python3.11 python3.14 python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
        python="$candidate"
        break
    fi
done
if [ -z "$python" ]; then # Ubuntu 22.04 brings 3.10, and has 3.11 beside it
    apt-get update
    if apt-get install -y python3.11 python3.11-venv; then
        python=python3.11
    else
        apt-get install -y python3 python3-venv
        python=python3
    fi
fi

"$python" -m venv /autograder/nox
/autograder/nox/bin/python -m pip install --quiet nox
cd /autograder/source/course
/autograder/nox/bin/python -m nox -s doctor
