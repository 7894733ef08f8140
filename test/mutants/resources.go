package main

// ofResources are defects in what a gr deploys, and in what is left of its earlier specs.
var ofResources = []mutant{
	// The objects of a spec.
	{"manifest-shared", "what one spec sets stays set in later ones", deploys, "manifestOf",
		"append($list, $o.DeepCopyObject().(object))", "append($list, $o)"},
	{"selector-leaks", "rendering writes into the spec", deploys, "gcusharePluginFields",
		"$fields.NodeSelector = maps.Clone($fields.NodeSelector)", ""},
	{"kept-owned", "a CRD goes with its gr", deploys, "own",
		"$RefOf($o).Kept()", "$RefOf($o).Shared()"},
	{"setting-not-carried", "a changed upgrade setting has no effect until the spec changes", deploys, "lastPass.render",
		"maps.Equal($known.$have, $annotations)", "maps.Equal($annotations, $annotations)"},
	{"service-stays", "a Service that is no longer requested is left", deploys, "deleteObjects",
		"if $o.Deleting { $*then }", `if $o.Deleting || $o.Ref.Kind == "Service" { $*then }`},
	{"shared-label-stays", "a node whose cards are no longer shared keeps the label", deploys, "decide",
		"$recorded && $w == $unwanted", "$recorded && $w == $unwanted && label != topsv1.LabelGcushare"},
	{"duplicates-applied", "two workloads with one name replace each other for ever", deploys, "duplicate",
		"$there && $other.Name == $c.Name", "$there && $other.Name == $c.Name && of == c.Name"},
	{"waits-for-pods-of-another", "a deletion waits for pods of a component that is deleted later", deploys, "podNodes",
		"$i < 0 || $deployedAsAnother($obs, $c)", "$i < 0"},
}
