"""Which edits the anchors of planted bugs survive, and which they reject."""
import anchor

CODE = """
struct Ring {  // a ring
  FA2_DEVICE Ring(int n) : slots{n}, used_(0) { sync(); }
  FA2_DEVICE void await(int n) {
    wait(n - 1);  // until it is there
    sync();
  }
};
template <class Config>
FA2_DEVICE void await(const Config& config) {
  ring.await(2);
  sync(); /* sync(); */ sync();
  log("sync();");
}
"""


def refusal(*arguments):
    try:
        return anchor.replaced(CODE, *arguments)
    except ValueError as error:
        return str(error)


assert anchor.replaced(CODE, "await", "wait(n\n-1);sync();", "sync();") == CODE.replace(
    "wait(n - 1);  // until it is there\n    sync();", "sync();")
assert anchor.replaced(CODE, "Ring", "{ sync();", "{") == CODE.replace("{ sync();", "{")
assert anchor.replaced(CODE, "await", "await(2)", "await(3)") == CODE.replace("await(2)", "await(3)")
assert anchor.replaced(CODE, "", "sync(); sync();", "") == CODE.replace("sync(); /* sync(); */ sync();", "")
assert refusal("await", "sync();", "") == "3 places in await, must be one: sync();"
assert refusal("Ring", "wait(n)", "") == "0 places in Ring, must be one: wait(n)"
assert refusal("wait", "n - 1", "") == "0 places in wait, must be one: n - 1"
