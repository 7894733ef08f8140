// Package workload simulates a program that computes on cards.
package workload

import (
	"context"
	"log"
	"time"

	"github.com/topsops/gcu-operator/test/standin/gcu"
)

// Run uses all its cards until ctx is done, and returns some time after. Without a card
// it returns gcu.ErrNoCard at once.
func Run(ctx context.Context, node gcu.Node, end time.Duration) error {
	cards, err := node.Open()
	if err != nil {
		return err
	}
	defer cards.Close()
	log.Printf("uses %d cards, driver %s", len(cards), node.Version())
	<-ctx.Done()
	log.Printf("ends in %s", end)
	<-time.After(end)
	return nil
}
