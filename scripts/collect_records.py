"""Makes a file of tuning records that ship with fa2 from what `fa2 tune` recorded: one GPU's, the last of each bucket, sorted.

  fa2 tune --all --budget-ms 300000 --head-dim 128 --causal --seqlen 8192     # once per problem; `fa2 info` names the store
  python3 scripts/collect_records.py tuning.jsonl --device "NVIDIA H100 80GB HBM3" > new.jsonl
  mv new.jsonl autotune/records/nvidia_h100_80gb_hbm3.jsonl

To add to a file that ships already, name it first: collect_records.py autotune/records/x.jsonl tuning.jsonl ... Standard
library only.
"""
import argparse
import json
import re
import sys

BUCKET = ("group_log2", "seqlen_q_log2", "seqlen_k_log2", "heads_log2")  # and then the other sizes


def records(path):
    """(record, its line) for every line; a damaged one ends the script."""
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                sort_key(record), record["device"]
            except (ValueError, KeyError, TypeError):
                sys.exit(f"{path}:{number}: not a tuning record; remove the line")
            yield record, line.strip()


def sort_key(record):
    """What a record speaks for, in the order of a reader: d64 before d128."""
    bucket = record["bucket"]
    traits = [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", bucket["traits"])]
    sizes = sorted(size for size in bucket.items() if size[0] not in ("traits", *BUCKET))
    return record["arch"], record["sm_count"], traits, [bucket[name] for name in BUCKET], sizes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="+", metavar="STORE.jsonl", help="later files win over earlier ones")
    parser.add_argument("--device", required=True, help="the GPU's name as `fa2 info` prints it")
    arguments = parser.parse_args()

    last, devices = {}, set()
    for store in arguments.stores:
        for record, line in records(store):
            devices.add(record["device"])
            if record["device"] == arguments.device:
                last[repr(sort_key(record))] = sort_key(record), line
    if not last:
        sys.exit(f'no record of "{arguments.device}"; there are records of: {", ".join(sorted(devices)) or "nothing"}')
    for _, line in sorted(last.values()):
        print(line)


main()
