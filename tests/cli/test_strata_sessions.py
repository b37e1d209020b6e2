"""The load of strata-sessions: its script draws the shipped file, and it is the load that docs say it is."""
import collections
import csv
import subprocess
import sys

import support

SCENARIOS = support.TOP / "workloads/scenarios"
SHIPPED = SCENARIOS / "strata-sessions.csv"
LOOGLE_TOKENS = 21613
PAGE_TOKENS = 64


def rows():
    with open(SHIPPED, newline="", encoding="ascii") as file:
        return list(csv.DictReader(file))


def its_script_draws_the_shipped_file_byte_for_byte(folder):
    drawn = subprocess.run([sys.executable, SCENARIOS / "strata_sessions.py"], cwd=folder, check=True,
                           stdout=subprocess.PIPE).stdout
    assert drawn == SHIPPED.read_bytes(), "write %s anew, and the figures in docs/policies.md" % SHIPPED.name


def documents_are_as_long_as_those_of_loogle_on_average(_):
    lengths = {}
    for row in rows():
        tokens = int(row["prefix_tokens"])
        assert lengths.setdefault(row["prefix_group"], tokens) == tokens, row
        assert tokens > 0 and tokens % PAGE_TOKENS == 0, row
    assert len(lengths) == 96, len(lengths)
    mean = sum(lengths.values()) / len(lengths)
    assert abs(mean - LOOGLE_TOKENS) <= PAGE_TOKENS / 2, mean


def sixty_four_clients_ask_one_after_the_other_and_wait_for_nothing_else(_):
    asked = rows()
    assert len(asked) == 2000, len(asked)
    for number, row in enumerate(asked):
        assert int(row["session_id"]) == number % 64, (number, row)
        assert row["arrival_s"] == row["think_s"] == "0", (number, row)
        assert 32 <= int(row["input_tokens"]) - int(row["prefix_tokens"]) <= 160, (number, row)
        assert 16 <= int(row["output_tokens"]) <= 48, (number, row)


def no_document_is_a_favourite(_):
    """Chi-squared of 95 degrees of freedom: 145 is passed by one fair draw in a thousand."""
    times = collections.Counter(row["prefix_group"] for row in rows())
    expected = 2000 / 96
    chi_squared = sum((count - expected) ** 2 / expected for count in times.values())
    assert chi_squared < 145, chi_squared


CASES = (
    its_script_draws_the_shipped_file_byte_for_byte,
    documents_are_as_long_as_those_of_loogle_on_average,
    sixty_four_clients_ask_one_after_the_other_and_wait_for_nothing_else,
    no_document_is_a_favourite,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
