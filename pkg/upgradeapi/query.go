package upgradeapi

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// dryRunIn reads the query of a request that changes something. What is
// misspelt must not change anything.
func dryRunIn(query url.Values) (bool, error) {
	for key, values := range query {
		if key != "dryRun" || len(values) != 1 {
			return false, request.BadRequest("query %.100q is not understood: there is dryRun=true only", query.Encode())
		}
	}
	if !query.Has("dryRun") {
		return false, nil
	}
	dryRun, err := strconv.ParseBool(query.Get("dryRun"))
	if err != nil {
		return false, request.BadRequest("dryRun %.100q is neither true nor false", query.Get("dryRun"))
	}
	return dryRun, nil
}

// planIn reads the query of a GET: what a PUT would have in its body, or nothing for
// what is still to be done.
func planIn(query url.Values) (body request.Upgrade, approved bool, err error) {
	body.Mode = request.ModeInPlace
	rest := url.Values{}
	for key, values := range query {
		switch {
		case key == "file" && len(values) == 1 && values[0] != "":
			body.File = values[0]
		case key == "nodes":
			body.Nodes = listed(values)
		case key == "components":
			body.Components = listed(values)
		case key == "all" && len(values) == 1:
			if body.All, err = strconv.ParseBool(values[0]); err != nil {
				return body, false, request.BadRequest("all %.100q is neither true nor false", values[0])
			}
		default:
			rest[key] = values
		}
	}
	if approved, err = approvedIn(rest); err != nil {
		return body, false, err
	}
	return body, approved, body.Check()
}

// listed are the names in a query: repeated, or separated by commas.
func listed(values []string) []string {
	names := []string{}
	for _, v := range values {
		names = append(names, strings.Split(v, ",")...)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

func approvedIn(query url.Values) (bool, error) {
	for key, values := range query {
		if key != "approved" || len(values) != 1 {
			return false, request.BadRequest("query %.100q is not understood: there are file, nodes, components, all and approved, of a POST approved only", query.Encode())
		}
	}
	if !query.Has("approved") {
		return false, nil
	}
	approved, err := strconv.ParseBool(query.Get("approved"))
	if err != nil {
		return false, request.BadRequest("approved %.100q is neither true nor false", query.Get("approved"))
	}
	return approved, nil
}
