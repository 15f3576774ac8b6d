rehearse platform show dgx-1v-32gb
