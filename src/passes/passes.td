// passes.td: the passes over qd IR, one record each. pipeline.cpp says in which order they run, and why.
#ifndef QD_PASSES_TD
#define QD_PASSES_TD

include "mlir/Pass/PassBase.td"

class QdPass<string name> : Pass<name, "::mlir::ModuleOp">;

def StripAsserts : QdPass<"qd-strip-asserts"> {
  let summary = "qd.assert => nothing";
  let description = "Outside debug mode an assertion of the user has no effect at all.";
}

def SplitTasks : QdPass<"qd-split-tasks"> {
  let summary = "A parallel qd.task for each outermost parallel loop, a serial one for the statements between two loops.";
  let description = [{
    Values and locals that cross tasks get a slot of the scratch block. What is cheap and pure is computed again instead:
    constants, argument reads, extents, places, short integer arithmetic on these.
    A local that a parallel loop only reads is loaded once, before the loop.
  }];
}

#endif
