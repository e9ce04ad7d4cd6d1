# Shorthands; the scripts in .ci/ do the work and need no make.
.PHONY: all test demo ci style bench vm-matrix clean

all:
	@sh .ci/setup

test demo: all
	@sh .ci/$@

ci:
	@bash .ci/run

style: all
	@.ci/leg style

bench: all
	@.venv/bin/python -m sandbox_native.bench

# Needs root and ../shared/vm; takes about twenty minutes.
vm-matrix:
	@.ci/vm-matrix

clean:
	rm -rf build .venv *.egg-info sandbox_native/_launcher sandbox_native/*.so sandbox_native/_native.c
