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
	return onlyBool(query, "dryRun", "there is dryRun=true only")
}

// approvedIn reads the query of a POST of a plan, or what is left of a GET's.
func approvedIn(query url.Values) (bool, error) {
	return onlyBool(query, "approved", "there are file, nodes, components, all and approved, of a POST approved only")
}

// onlyBool reads a query that may hold one parameter, true or false; known tells what there is.
func onlyBool(query url.Values, name, known string) (bool, error) {
	for key, values := range query {
		if key != name || len(values) != 1 {
			return false, request.BadRequest("query %.100q is not understood: %s", query.Encode(), known)
		}
	}
	if !query.Has(name) {
		return false, nil
	}
	return boolean(name, query.Get(name))
}

func boolean(name, text string) (bool, error) {
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, request.BadRequest("%s %.100q is neither true nor false", name, text)
	}
	return value, nil
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
			if body.All, err = boolean(key, values[0]); err != nil {
				return body, false, err
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
