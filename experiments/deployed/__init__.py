"""The same jobs deployed and simulated: README.md says what is compared, and shows what was measured."""
