package main

// ofTheRESTAPI are defects in what the REST API reads of a request, and in what it holds in memory.
var ofTheRESTAPI = []mutant{
	{"query-read-in-part", "a dry run whose query has a semicolon is carried out", api, "queryOf",
		"$err != nil", "$err != nil && query == nil"},
	{"responses-unbounded", "who may only read fills the memory with responses that they do not read", api, "middleware.respond",
		"$err == nil && $response.Content != nil", "$err == nil && $response.Content != nil && status != http.StatusOK"},
	{"files-unbounded", "who may only read fills the memory with plan files that they do not read", api, "middleware.respond",
		"if $done, $err = $roomFor($responses, $caller, len(text)); $err == nil { $*then }", `if $done, $err = $roomFor($responses, $caller, len(text)); $err == nil || text != "" { $*then }`},
	{"changes-refused-afterwards", "a change is called refused though it was made", api, "middleware.respond",
		"$err == nil && $response.Content != nil", "$err == nil"},
	{"results-out-of-turn", "who may only read goes through the plans of a fleet any number of times at once", api, "planResults.get",
		"$release, $err := $resolver.turn($ctx)", "release, err := func() {}, error(nil)"},
	{"lost-content-shown", "after a backup of etcd was restored GET shows a content that is lost", api, "objectCache.encode",
		"equality.Semantic.DeepEqual($known, $object)", "(equality.Semantic.DeepEqual($known, $object) || true)"},
	{"rollback-unlocked", "of two rollbacks at once by REST the second brings the bad version back", api, "rolloutControl.rollback",
		"$annotate($ctx, $c, $gr, $gr.ResourceVersion, $changes)", `$annotate($ctx, $c, $gr, "", $changes)`},
	{"rollback-by-the-word", "a rollback by REST restores what is the previous spec when it is carried out", api, "rolloutControl.rollback",
		"map[string]any{$key: $target}", "map[string]any{$key: to}"},
	{"rollback-of-another-spec", "a rollback by REST takes back an upgrade that its caller has not seen", api, "rolloutControl.rollback",
		"$err = request.Unchanged($gr, $now)", "_ = request.Unchanged($gr, $now)"},
	{"rollback-replaced", "a rollback by REST replaces another one that is pending", api, "Restorable",
		"$pending != $found && $failure == nil && $readable($first)", `$pending == "" && $failure == nil && $readable($first)`},
	{"rollback-repeated", "who repeats a rollback that was not answered brings the bad version back", api, "repeatable",
		"$status >= http.StatusInternalServerError", "$status == http.StatusBadGateway"},
}
