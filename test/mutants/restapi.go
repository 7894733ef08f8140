package main

// ofTheRESTAPI are defects in what the REST API reads of a request, and in what it holds in memory.
var ofTheRESTAPI = []mutant{
	{"query-read-in-part", "a dry run whose query has a semicolon is carried out", api, "queryOf",
		"$err != nil", "$err != nil && query == nil"},
}
