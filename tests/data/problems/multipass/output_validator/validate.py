"""Takes the letters in the first pass, gives them back in capitals, takes the number in the second."""

import pathlib
import sys

answer = pathlib.Path(sys.argv[2]).read_text().strip()
feedback = pathlib.Path(sys.argv[3])
message = feedback / "judgemessage.txt"
state = feedback / "state.txt"
output = sys.stdin.read().strip()


def refuse(reason):
    with message.open("a") as file:
        file.write(reason + "\n")
    sys.exit(43)


if state.exists():
    if output != answer:
        refuse(f"pass 2: {output[:40]!r} in place of {answer}")
    sys.exit(42)
if len(output) > 8 or set(output) - {"a", "b"}:
    refuse(f"pass 1: {output[:40]!r} is not at most eight letters a or b")
state.write_text(output)
(feedback / "nextpass.in").write_text(f"decode\n{output.upper()}\n")
with message.open("a") as file:
    file.write(f"pass 1: {output}\n")
sys.exit(42)
