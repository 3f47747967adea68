"""Checks everything under deploy/ that can be checked without a cluster, an engine or a cloud.

    python deploy/check/run.py [--homing PATH]

`cargo xtask test --only deploy` installs what it needs and calls it. Prints every problem, not
only the first.
"""

import argparse
import sys
import unittest

import containers
import network
import options
import references
import render
import same
import schemas
import security
import terraform


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--homing", help="a built program, to compare the options with")
    homing = arguments.parse_args().homing
    found = kubernetes() + [f"terraform: {problem}" for problem in terraform.problems()]
    found += list(containers.problems()) + list(options.of_sources())
    found += of_program(homing)
    for problem in found:
        print(problem)
    # The checks are checked too: an error that is planted has to be found.
    tests = unittest.defaultTestLoader.discover(render.CHECK, "test_*.py")
    tested = unittest.TextTestRunner(verbosity=1).run(tests)
    if found:
        print(f"{len(found)} problem(s)")
    return 0 if not found and tested.wasSuccessful() else 1


def kubernetes():
    found = []
    rendered = render.everything()
    observability = render.observability()
    everything = observability + [thing for objects in rendered.values() for thing in objects]
    found += sorted(set(schemas.problems(everything)))
    for name, objects in rendered.items():
        for check in [references, network, security, options]:
            found += [f"{name}: {problem}" for problem in check.problems(objects)]
        print(f"{name}: {len(objects)} objects")
    for name in sorted(render.CHARTS.keys() & render.OVERLAYS.keys()):
        one, other = rendered[f"kustomize {name}"], rendered[f"helm {name}"]
        found += [f"{name}: {problem}" for problem in same.problems(one, other)]
    charts = sorted({render.chart_of(name) for name in render.CHARTS})
    lint = [render.TOOLS / "helm", "lint", "--strict", "--quiet", *charts]
    return found + containers.said(*lint)


def of_program(homing):
    if homing is None:
        print("options not compared with the program itself: none was given")
        return []
    found, absent = options.of_program(homing)
    for command in absent:
        print(f"options of `homing {command}` not compared: this build has no such command")
    return found


if __name__ == "__main__":
    sys.exit(main())
