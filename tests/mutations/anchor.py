"""Finds the code that a planted bug replaces: tokens within the functions or structs of one name. Comments, line breaks and code
elsewhere in the file do not matter."""
import re

SKIPPED = r"\s+|//[^\n]*|/\*.*?\*/"
TOKEN = re.compile(rf"""{SKIPPED}|(?P<code>[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.'])*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'
    |<<=|>>=|\.\.\.|->|::|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""".replace("\n    ", ""), re.DOTALL)
CLOSING = {"(": ")", "{": "}", "[": "]"}


def tokens_of(text):
    """Returns the matches of all tokens; their text is group("code")."""
    return [match for match in TOKEN.finditer(text) if match["code"]]


def after_pair(words, opening):
    """Returns the index after the bracket that closes words[opening]."""
    depth, close = 0, CLOSING[words[opening]]
    for i in range(opening, len(words)):
        depth += (words[i] == words[opening]) - (words[i] == close)
        if depth == 0:
            return i + 1
    return len(words)


def end_of_definition(words, name):
    """Returns the index after the body of the function or struct whose name is words[name]; None if it is not defined there."""
    is_type = words[name - 1] in ("struct", "class", "union", "enum", "namespace") if name else False
    i = name + 1
    if i == len(words) or words[i] not in (("{", ":", "<", "final") if is_type else "("):
        return None
    if not is_type:
        i = after_pair(words, i)
        if i == len(words) or words[i] not in ("{", ":", "->", "const", "noexcept", "override", "final"):
            return None
    is_list = False  # a constructor's list of members, each with brackets
    while i < len(words) and words[i] not in (";", ")", "=", "?"):
        if words[i] == "{" and not (is_list and (words[i - 1].isidentifier() or words[i - 1] == ">")):
            return after_pair(words, i)
        is_list = is_list or words[i] == ":" and not is_type
        i = after_pair(words, i) if words[i] in CLOSING else i + 1
    return None


def regions(words, scope):
    """Returns the (begin, end) of every definition of `scope`, or the whole file without a name."""
    if not scope:
        return [(0, len(words))]
    ends = [(i, end_of_definition(words, i)) for i, word in enumerate(words) if word == scope]
    return [(begin, end) for begin, end in ends if end]


def places(text, scope, old):
    """Returns the (begin, end) of each place in `text` that has the tokens of `old` within `scope`."""
    tokens, wanted = tokens_of(text), [token["code"] for token in tokens_of(old)]
    words = [token["code"] for token in tokens]
    starts = {i for begin, end in regions(words, scope) for i in range(begin, end - len(wanted) + 1)
              if words[i:i + len(wanted)] == wanted}
    return [(tokens[i].start(), tokens[i + len(wanted) - 1].end()) for i in sorted(starts)]


def replaced(text, scope, old, new):
    """Returns `text` with `new` in place of `old`, which must occur once within `scope`; ValueError otherwise."""
    found = places(text, scope, old)
    if len(found) != 1:
        raise ValueError(f"{len(found)} places in {scope or 'the file'}, must be one: {old}")
    begin, end = found[0]
    return text[:begin] + new + text[end:]
