# The two commands a newcomer needs are `make demo` and `make test`. Each installs what is missing, builds and runs.
BUILD ?= build
JOBS ?= $(shell nproc)
# NVRTC from NVIDIA's wheel, where no toolkit is installed: known only after `dependencies`.
USE_NVRTC = $(if $(FA2_NVRTC),,$(addprefix FA2_NVRTC=$(CURDIR)/,$(shell ls .deps/cuda/lib64/libnvrtc.so.13 2>/dev/null)))

.PHONY: help dependencies configure build demo test test-long sanitize format tidy clean

help: ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

dependencies:
	@bash scripts/install_dependencies.sh

configure: dependencies
	@cmake -G Ninja -S . -B $(BUILD) $(CMAKE_FLAGS) >/dev/null

build: configure ## Build the library, the fa2 command, the examples and the tests
	@cmake --build $(BUILD) -j $(JOBS)

demo: configure ## Run attention on the sample, on the GPU or the interpreter
	@cmake --build $(BUILD) -j $(JOBS) --target fa2_command
	@$(USE_NVRTC) bash scripts/demo.sh $(BUILD)

test: build ## Run every test suite, of the long jobs a part; what this machine cannot run counts as skipped
	@$(USE_NVRTC) bash scripts/run_tests.sh $(BUILD)

test-long: build ## Run every test suite, TSan and clang-tidy as a whole
	@$(USE_NVRTC) bash scripts/run_tests.sh $(BUILD) all
	@bash scripts/install_dependencies.sh --ci
	@bash scripts/sanitize.sh address,undefined all
	@bash scripts/sanitize.sh thread all
	@bash scripts/tidy.sh all

sanitize: ## Build with clang and run the unit tests under ASan+UBSan, then TSan
	@bash scripts/install_dependencies.sh --ci
	@bash scripts/sanitize.sh address,undefined all
	@bash scripts/sanitize.sh thread

format: ## Format every source
	@git ls-files '*.h' '*.cpp' '*.cuh' '*.cu' '*.c' | xargs clang-format -i

tidy: ## Run clang-tidy over the library
	@bash scripts/install_dependencies.sh --ci
	@bash scripts/tidy.sh all

clean: ## Remove the build folder
	@rm -rf $(BUILD)
