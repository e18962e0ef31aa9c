"""The command: `fa2 VERB`, or `python -m fa2 VERB`. Verbs and options have the C++ command's names."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from . import Error, __version__, _bench, _command, _problem_options
from ._call import FLAGS

_VARIANTS = ("window-left", "attention-chunk", *(name.replace("_", "-") for name in FLAGS))
_WORDS = {"yes": (True,), "no": (False,), "both": (False, True)}


def _list_of(item: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def read(text: str) -> list[Any]:
        return [item(part) for part in text.split(",")]

    read.__name__ = f"list of {item.__name__}"  # argparse's message has it
    return read


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=80)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_default = action.default not in (None, False, argparse.SUPPRESS) and action.option_strings
        return super()._get_help_string(action) if has_default else action.help


def _choice(verb: argparse.ArgumentParser, name: str, default: str, meaning: str) -> None:
    verb.add_argument(f"--{name}", nargs="?", const="yes", default=default, choices=tuple(_WORDS), metavar="yes|no|both", help=meaning)


def _add_precompile(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--arch", required=True, type=_list_of(str), metavar="A,A", help="sm_80,sm_90a ...")
    verb.add_argument("--head-dim", type=_list_of(int), default="64,128", metavar="N,N", help="columns of q and k")
    verb.add_argument("--head-dim-v", type=int, default=0, metavar="N", help="columns of v; 0: as many")
    dtypes = _list_of(_problem_options.dtype_of)
    verb.add_argument("--dtype", type=dtypes, default="f16,bf16", metavar="T,T", help="element types")
    _choice(verb, "causal", "both", "with the causal mask, without, both")
    for name in _VARIANTS:
        _choice(verb, name, "no", f"kernels with {name.replace('-', ' ')}, without, both; alone: with")
    verb.add_argument("--page-size", type=int, default=0, metavar="N", help="rows of a page of k and v; 0: no pages")
    _problem_options.add_kv_type(verb)
    _problem_options.add_lse_base(verb)
    for name, meaning in {"backward": "of gradients", "append": "of append()", "merge": "of merge()"}.items():
        verb.add_argument(f"--{name}", action="store_true", help=f"also the kernels {meaning}")
    verb.add_argument("--out", help="directory to fill or pack to write (.fa2pack), for FA2_CACHE_PATH; the user's own cache without it")
    verb.add_argument("--jobs", type=int, default=0, metavar="N", help="compiling threads; 0: one for each core")


def _add_bench(verb: argparse.ArgumentParser) -> None:
    lists = {"head-dim": ("128", "columns"), "seqlen": ("1024,4096,16384", "queries, and as many keys")}
    for name, (default, meaning) in lists.items():
        verb.add_argument(f"--{name}", type=_list_of(int), default=default, metavar="N,N", help=meaning)
    dtypes = _list_of(_problem_options.dtype_of)
    verb.add_argument("--dtype", type=dtypes, default="f16", metavar="T,T", help="element types: f16, bf16")
    _choice(verb, "causal", "both", "with the causal mask, without, both")
    numbers = {
        "tokens": (16384, "batch * seqlen"),
        "batch": (0, "sequences, instead of --tokens; 0: by --tokens"),
        "hidden": (2048, "heads * head_dim"),
        "heads": (0, "query heads, instead of --hidden; 0: by --hidden"),
        "heads-kv": (0, "heads of keys and values; 0: as many as query heads"),
        "rounds": (9, "bursts of each problem; medians are shown"),
    }
    for name, (number, meaning) in numbers.items():
        verb.add_argument(f"--{name}", type=int, default=number, metavar="N", help=meaning)
    verb.add_argument("--backward", action="store_true", help="the gradients of q, k and v instead")


def _add_tune(verb: argparse.ArgumentParser) -> None:
    _problem_options.add_to(verb)
    verb.add_argument("--all", action="store_true", help="every valid configuration, not the likely ones alone")
    verb.add_argument("--budget-ms", type=int, metavar="N", help="time for a kernel (default: FA2_TUNE_BUDGET_MS)")


def _add_cache(verb: argparse.ArgumentParser) -> None:
    actions = "list: a line for each kernel; verify: checks every file, exit code 1 if one is damaged; prune: removes"
    verb.add_argument("action", choices=("list", "verify", "prune"), help=f"{actions} damaged and old files")
    verb.add_argument("--dir", help="directory; the user's own cache without it")
    verb.add_argument("--max-mb", type=int, metavar="N", help="prune: megabytes to keep (default: FA2_CACHE_MAX_MB)")


def _precompile(args: argparse.Namespace) -> Any:
    variants = {name: _WORDS[getattr(args, name)] for name in (variant.replace("-", "_") for variant in _VARIANTS)}
    return _command.precompile(
        args.arch,
        head_dims=args.head_dim,
        dtypes=args.dtype,
        causal=_WORDS[args.causal],
        window=variants.pop("window_left"),
        head_dim_v=args.head_dim_v,
        page_size=args.page_size,
        kv_type=args.kv_type,
        lse_base=args.lse_base,
        backward=args.backward,
        append=args.append,
        merge=args.merge,
        out=args.out,
        jobs=args.jobs,
        **variants,
    )


def _measure(args: argparse.Namespace) -> Any:
    return _bench.measure_all(
        dtypes=args.dtype,
        head_dims=args.head_dim,
        seqlens=args.seqlen,
        causal=_WORDS[args.causal],
        tokens=args.tokens,
        batch=args.batch,
        hidden=args.hidden,
        heads=args.heads,
        heads_kv=args.heads_kv,
        backward=args.backward,
        rounds=args.rounds,
    )


def _nothing(verb: argparse.ArgumentParser) -> None:
    pass


#: For each verb: name, meaning, example, function that adds options, function that computes, function that formats.
_VERBS: tuple[tuple[str, str, str, Callable[..., Any], Callable[..., Any], Callable[..., str]], ...] = (
    ("info", "show versions, GPUs, NVRTC and caches", "--json", _nothing, _command.info, _command.machine_text),
    (
        "doctor",
        "show what info shows, what is wrong with it, and one small attention; exit code 1 if that fails",
        "",
        _nothing,
        _command.doctor,
        _command.machine_text,
    ),
    (
        "bench",
        "time attention beside PyTorch's scaled_dot_product_attention, on a GPU",
        "--head-dim 64,128 --seqlen 1024,4096 --causal yes --backward",
        _add_bench,
        _measure,
        _command.times_text,
    ),
    (
        "precompile",
        "compile kernels into a cache directory, for all sizes; needs NVRTC and no GPU",
        "--arch sm_90a --head-dim 64,128 --backward --out pack",
        _add_precompile,
        _precompile,
        _command.kernels_text,
    ),
    (
        "explain",
        "show the kernels that run for a problem, and why; compiles those that no cache holds",
        "--head-dim 128 --causal --window-left 1024 --sinks",
        _problem_options.add_to,
        _command.explain,
        str,
    ),
    (
        "tune",
        "measure configurations for a problem on a GPU and record the best",
        "--head-dim 128 --causal --seqlen 8192 --heads 32 --heads-kv 8",
        _add_tune,
        _command.tune,
        _command.tuning_text,
    ),
    (
        "cache",
        "list, verify or prune the compiled kernels of a cache directory",
        "prune --max-mb 256",
        _add_cache,
        _command.cache,
        _command.cache_text,
    ),
)


def _parser() -> argparse.ArgumentParser:
    command = "python -m fa2" if os.path.basename(sys.argv[0]) == "__main__.py" else "fa2"
    description = "Attention kernels, compiled for your GPU at run time. The C++ command of the same name has run and dump too."
    epilog = f"example: {command} doctor"
    parser = argparse.ArgumentParser(prog=command, description=description, epilog=epilog, formatter_class=_Help)
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, meaning, example, add_options, compute, show in _VERBS:
        verb = verbs.add_parser(
            name,
            usage=f"{command} {name} {'list|verify|prune ' if name == 'cache' else ''}[options]",
            help=meaning,
            description=f"{meaning[0].upper()}{meaning[1:]}.",
            epilog=f"example: {command} {name} {example}".rstrip(),
            formatter_class=_Help,
        )
        verb.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
        add_options(verb)
        verb.set_defaults(compute=compute, show=show)
    return parser


def main(arguments: list[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    try:
        result = args.compute(args)
    except (Error, ImportError) as error:  # numpy or PyTorch may be missing
        print(f"fa2: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result, indent=2) if args.json else args.show(result))
    return _command.exit_code(args, result)


if __name__ == "__main__":
    sys.exit(main())
