# One word a task; each calls the script that does it.
.PHONY: setup test check unit all floors measure manual map hooks

setup:   ## .venv with this checkout and all tools of tier 1
	contrib/setup test
test:    ## tier 1, or the tests of FILE, a file or folder
	contrib/test $(FILE)
check:   ## ruff, format, mypy
	contrib/check
unit:    ## tier 1 without the real Ganeti cluster
	contrib/test -m "not lab"
all:     ## tier 2: all tests, all labs
	contrib/test --all
floors:  ## a fast part at the lower bounds of the dependencies
	contrib/floors
measure: ## coverage and mutation score of MODULES by the tests FILE
	contrib/measure $(FILE) $(MODULES)
manual:  ## the manual as a site
	contrib/manual/build
map:     ## the source map, after a folder was added or moved
	contrib/source-map > docs/explanation/source-map.md
hooks:   ## the checks before each commit
	ln -sf ../../contrib/check "$$(git rev-parse --git-dir)/hooks/pre-commit"
