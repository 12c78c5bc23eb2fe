"""A program linked by lto-prune, in actions that each read their inputs and nothing else (docs/ACTIONS.md)."""

def _run(ctx, mnemonic, arguments, inputs, output_files):
    ctx.actions.run(
        executable = ctx.file.tool,
        arguments = arguments,
        inputs = inputs,
        outputs = output_files,
        mnemonic = mnemonic,
        env = {"LTO_PRUNE_LINKER": ctx.attr.linker, "PATH": "/usr/bin:/bin"},
    )

def _pruned_binary_impl(ctx):
    root = ctx.label.name + ".prune/"
    prefix = "/".join([part for part in [ctx.bin_dir.path, ctx.label.package, root] if part])
    output = ctx.actions.declare_file(ctx.label.name)
    interfaces, plans, emitted = [], [], []
    for file in ctx.files.objects:
        interface = ctx.actions.declare_file(root + file.path + ".ltoif")
        _run(ctx, "PruneSummarize", ["summarize", "--interface", file.path, "-o", interface.path], [file], [interface])
        interfaces.append(interface)
        plans.append(ctx.actions.declare_file(root + file.path + ".ltoplan"))
    line = ["-Wl," + file.path for file in ctx.files.objects] + ctx.attr.linkopts + ["-o", output.path]
    options = ["--prune-no-cache", "--prune-strict", "--prune-interfaces=" + prefix]
    _run(ctx, "PrunePlan", line + options + ["--prune-plan=" + prefix], interfaces, plans)
    for file, plan in zip(ctx.files.objects, plans):
        pruned = ctx.actions.declare_file(root + "emitted/" + file.path)
        _run(ctx, "PruneEmit", ["emit", "--plan=" + plan.path, file.path, "-o", pruned.path], [file, plan], [pruned])
        emitted.append(pruned)
    inputs = ctx.files.objects + interfaces + emitted
    _run(ctx, "PruneLink", line + options + ["--prune-emitted=" + prefix + "emitted"], inputs, [output])
    return [DefaultInfo(files = depset([output]), executable = output)]

pruned_binary = rule(
    implementation = _pruned_binary_impl,
    attrs = {
        "objects": attr.label_list(allow_files = True, doc = "Objects and archives, in the order of the link."),
        "linkopts": attr.string_list(doc = "Other words for the compiler driver."),
        "linker": attr.string(default = "/usr/bin/ld.lld-19", doc = "The linker behind."),
        "tool": attr.label(allow_single_file = True, mandatory = True, doc = "The executable lto-prune."),
    },
    executable = True,
)
